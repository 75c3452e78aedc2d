"""The panes beside and below tables and the mesh, and the parts that they share."""
