"""What all parts of the agent use: the board that its threads share, budgets, settings, threads, waiting."""
