"""Findings: what is wrong with a run, what it costs, where the proof is, and what to do."""
