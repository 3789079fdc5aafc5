#ifndef TUTTI_IMPLEMENTATIONS_IMPLEMENTATION_NAME_H_
#define TUTTI_IMPLEMENTATIONS_IMPLEMENTATION_NAME_H_

#include <algorithm>
#include <cstddef>

#include "absl/strings/string_view.h"

namespace tutti {

// A registered name as an argument of templates.
template <size_t size>
struct ImplementationName {
  consteval ImplementationName(const char (&name)[size]) {  // NOLINT: a name.
    std::copy_n(name, size, text);
  }
  constexpr absl::string_view view() const { return {text, size - 1}; }

  char text[size];
};

}  // namespace tutti

#endif  // TUTTI_IMPLEMENTATIONS_IMPLEMENTATION_NAME_H_
