"""What people read: words, tables, the HTML report. Everything here reads outcomes; nothing simulates."""
