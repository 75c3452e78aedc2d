"""The agent's core: its threads, the board that they share, the publisher, settings and budgets."""
