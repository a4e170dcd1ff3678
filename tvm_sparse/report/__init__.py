"""Pictures and pages for people: one self-contained HTML file a compilation."""
