"""Filters: what a person can type after `/` on each screen."""
