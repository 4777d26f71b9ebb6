"""Read files in many formats as tables, and define the data sets that they become."""
