"""What hosts are called: the noun of a run (`nouns.py`), and their names in sentences (`sentences.py`)."""
