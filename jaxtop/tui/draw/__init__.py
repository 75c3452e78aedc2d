"""Renderables: values and a size in, text out. No widget, no app, no clock."""
