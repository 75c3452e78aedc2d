"""The processes of `jaxtop probe`, jobs of their own on idle devices; no part of the agent imports them."""
