"""What every room uses: times, names, keys, private files, processes, meshes as text, features."""
