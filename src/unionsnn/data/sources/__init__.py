"""Sources of data sets: downloads, and one reader for each format."""
