"""The documentation as a site: the pages outside of docs/, and the reference that is made from the code."""
