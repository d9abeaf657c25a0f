"""The end of namespaces, in the place of the controller manager: for many at once, and without a pause.

Context: docs/decisions/namespaces.md.
"""
