"""Full profiles of several hosts, as files: XProf's folder, and one merged trace for Perfetto."""
