"""Pages over HTTP from a cluster that a thread follows."""
