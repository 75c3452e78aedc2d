"""The steps of a run, and what its script reports of them."""
