"""Screens over the others: help, the go-to dialog, the list of live runs."""
