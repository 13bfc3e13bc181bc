"""Where data sets come from: downloads, and one reader for each format."""
