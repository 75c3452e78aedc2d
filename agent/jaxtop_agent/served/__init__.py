"""Figures that an engine serves as Prometheus text, read where the user asks for it.

What is where, in the order in which to read it:

- exposition.py: the samples in such a text
- figures.py: from samples to figures: rates, and percentiles of what was counted since the last time
- scraper.py: the thread that reads the text from this machine
"""
