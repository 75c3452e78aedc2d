"""Whether the run stands still, and where its threads are."""
