"""Files in many formats -> tables, and what data sets those become."""
