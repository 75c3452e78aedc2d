"""Plans: what the run would need and how fast it would be on another mesh or with other shardings."""
