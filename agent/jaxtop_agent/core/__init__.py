"""The agent's frame: its threads, the board between them, the publisher, settings and budgets."""
