#ifndef TUTTI_TOOLS_COMMANDS_JSON_VALUE_H_
#define TUTTI_TOOLS_COMMANDS_JSON_VALUE_H_

#include <string>

#include "nlohmann/json.hpp"

namespace tutti {

// JSON whose objects keep the order of their fields.
using Json = nlohmann::ordered_json;

// Returns `text`, or null if it is empty.
inline Json OrNull(const std::string& text) {
  return text.empty() ? Json() : Json(text);
}

}  // namespace tutti

#endif  // TUTTI_TOOLS_COMMANDS_JSON_VALUE_H_
