"""The process of `jaxtop plan --compile`, which compiles a program for other meshes. No agent imports it."""
