"""Names that are DNS labels (RFC 1123), as those of namespaces are."""

import re

DNS_LABEL_RULE = 'lower-case letters, digits and "-", beginning and ending with a letter or digit'
DNS_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
