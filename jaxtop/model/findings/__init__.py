"""Findings: what is wrong with a run, what it costs, where the proof is, and what to do.

What is where, in the order in which to read it:

- rule.py: what a rule is, and what it reads
- rules/: the rules, one file per kind of cause
- reducer.py: checks the rules, and decides which findings are reported
- coverage.py: how many rules were checked, and why not all
- health.py: the health of all runs in one sentence, for the app
- advice.py: the next step, with the keys or the command that it needs
- sentences.py: costs and filters as text
- gap_findings.py: what findings about gaps of hosts share
- large_arrays.py: the large arrays, for rules about their placement
- shortage.py: memory that a script did not get
- trends.py: figures that keep rising
- alerts.py: the start and the end of a finding
- postmortem.py: what a process was like before it failed
- postmortem_words.py: a post-mortem in words
"""
