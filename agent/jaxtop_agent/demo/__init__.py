"""The demo's training process: a small language model, trained for real over several processes."""
