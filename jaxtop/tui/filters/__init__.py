"""The filters that can be typed after `/` on each screen."""
