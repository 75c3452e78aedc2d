"""The census of live arrays: their kinds, their names in the script, and their shardings."""
