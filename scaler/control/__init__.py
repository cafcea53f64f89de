"""The loops that drive the pure law: one per workload, a supervisor over them, and the board that everybody reads."""
