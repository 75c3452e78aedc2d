"""The plan bench, `make plans`: what the planner predicts, beside what real runs on other meshes need."""
