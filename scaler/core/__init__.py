"""The law, pure: values in, values out. Time is an argument; nothing here reads a clock, a network or an environment."""
