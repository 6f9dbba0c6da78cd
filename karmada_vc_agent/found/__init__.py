"""Virtual clusters that are found on the host: by NodeGroups, and by a label of nodes."""
