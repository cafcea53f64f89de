"""What a person looks at: pages that stand alone in one file, and tables for a terminal. Values in, text out."""
