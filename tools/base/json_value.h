#ifndef TUTTI_TOOLS_BASE_JSON_VALUE_H_
#define TUTTI_TOOLS_BASE_JSON_VALUE_H_

#include <optional>
#include <string>

#include "nlohmann/json.hpp"

namespace tutti {

// JSON whose objects keep the order of their fields.
using Json = nlohmann::ordered_json;

// Returns `text`, or null if it is empty.
inline Json OrNull(const std::string& text) {
  return text.empty() ? Json() : Json(text);
}

// Returns the number, or null if there is none.
template <typename Number>
Json OrNull(const std::optional<Number>& number) {
  return number.has_value() ? Json(*number) : Json();
}

}  // namespace tutti

#endif  // TUTTI_TOOLS_BASE_JSON_VALUE_H_
