"""The cluster on a terminal. Knows the model, and nothing of sockets, files or exporters."""
