"""The terminal interface. It depends on the model, and not on sockets, files or exporters."""
