"""The curated upstream conformance specs: which they are, how they run, the verdict of each."""
