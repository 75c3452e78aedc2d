"""Arrays: groups of all processes, the tree of their names, and what fills each device."""
