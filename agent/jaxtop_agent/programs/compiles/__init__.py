"""How often and why functions are compiled."""
