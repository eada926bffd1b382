"""Plans ahead: a resource-time profile, plans over windows of slots, the programs that find them."""
