"""What the readers make of captured profiles and compiled texts of accelerators, in a folder of one's own."""
