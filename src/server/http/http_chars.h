// Character classes of HTTP.
#pragma once

namespace forerun::server {

// Returns whether it is RFC 5234's CTL except the tab, which values of fields may contain.
inline bool is_control_char(unsigned char byte) {
  return (byte < 0x20 && byte != '\t') || byte == 0x7f;
}

// Returns the value of a hexadecimal digit; -1 for other characters.
inline int hex_value(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
  return -1;
}

}  // namespace forerun::server
