#include "tests/cluster/spoilt_messages.h"

#include <cstdint>
#include <functional>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"

namespace tutti {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr int kTooMany = 100'000;

template <typename T>
constexpr T kExtremes[] = {0,
                           1,
                           static_cast<T>(-1),
                           static_cast<T>(-2),
                           65536,
                           65537,
                           std::numeric_limits<T>::max(),
                           std::numeric_limits<T>::min()};

// Change to a field of a message.
struct Change {
  std::string what;
  std::function<void(Message*, const FieldDescriptor*)> apply;
  bool is_absurd = false;
};

// Sets the field by `kSet`, or the first entry of a repeated field by
// `kSetRepeated`.
template <typename T, auto kSet, auto kSetRepeated>
std::vector<Change> Numbers() {
  std::vector<Change> changes;
  for (const T value : kExtremes<T>) {
    changes.push_back({absl::StrCat("is ", value),
                       [value](Message* m, const FieldDescriptor* field) {
                         const Reflection& r = *m->GetReflection();
                         if (field->is_repeated()) {
                           (r.*kSetRepeated)(m, field, 0, value);
                         } else {
                           (r.*kSet)(m, field, value);
                         }
                       }});
  }
  return changes;
}

// Same as Numbers(), for texts.
std::vector<Change> Texts() {
  std::vector<Change> changes;
  const auto add = [&](const std::string& what, const std::string& text,
                       bool is_absurd) {
    changes.push_back({what,
                       [text](Message* m, const FieldDescriptor* field) {
                         const Reflection& r = *m->GetReflection();
                         if (field->is_repeated()) {
                           r.SetRepeatedString(m, field, 0, text);
                         } else {
                           r.SetString(m, field, text);
                         }
                       },
                       is_absurd});
  };
  add("is empty", "", false);
  add("is another", "other", false);
  add("has a slash", "a/b", true);
  add("has a NUL", std::string("a\0b", 3), true);
  add("is no UTF-8", "\xff\xfe", false);
  add("has 1 MiB", std::string(size_t{1} << 20, 'x'), true);
  return changes;
}

std::vector<Change> Booleans() {
  return {{"is the opposite", [](Message* m, const FieldDescriptor* field) {
             const Reflection& r = *m->GetReflection();
             r.SetBool(m, field, !r.GetBool(*m, field));
           }}};
}

std::vector<Change> ValuesOf(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return Numbers<int32_t, &Reflection::SetInt32,
                     &Reflection::SetRepeatedInt32>();
    case FieldDescriptor::CPPTYPE_INT64:
      return Numbers<int64_t, &Reflection::SetInt64,
                     &Reflection::SetRepeatedInt64>();
    case FieldDescriptor::CPPTYPE_UINT64:
      return Numbers<uint64_t, &Reflection::SetUInt64,
                     &Reflection::SetRepeatedUInt64>();
    case FieldDescriptor::CPPTYPE_STRING:
      return Texts();
    case FieldDescriptor::CPPTYPE_BOOL:
      return Booleans();
    default:
      return {};
  }
}

// Appends a copy of the first entry.
void AddEntry(Message* m, const FieldDescriptor* field) {
  const Reflection& r = *m->GetReflection();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return r.AddInt32(m, field, r.GetRepeatedInt32(*m, field, 0));
    case FieldDescriptor::CPPTYPE_INT64:
      return r.AddInt64(m, field, r.GetRepeatedInt64(*m, field, 0));
    case FieldDescriptor::CPPTYPE_UINT64:
      return r.AddUInt64(m, field, r.GetRepeatedUInt64(*m, field, 0));
    case FieldDescriptor::CPPTYPE_STRING:
      return r.AddString(m, field, r.GetRepeatedString(*m, field, 0));
    case FieldDescriptor::CPPTYPE_MESSAGE: {
      // The new entry may move the old ones.
      Message* const added = r.AddMessage(m, field);
      return added->CopyFrom(r.GetRepeatedMessage(*m, field, 0));
    }
    default:
      return;
  }
}

std::vector<Change> ChangesOf(const FieldDescriptor& field) {
  std::vector<Change> changes = ValuesOf(field);
  changes.push_back(
      {"is missing", [](Message* m, const FieldDescriptor* missing) {
         m->GetReflection()->ClearField(m, missing);
       }});
  if (!field.is_repeated()) return changes;
  changes.push_back({"has an entry twice", AddEntry});
  changes.push_back({absl::StrCat("has ", kTooMany, " entries"),
                     [](Message* m, const FieldDescriptor* repeated) {
                       for (int i = 1; i < kTooMany; ++i) AddEntry(m, repeated);
                     },
                     /*is_absurd=*/true});
  return changes;
}

bool IsSet(const Message& message, const FieldDescriptor& field) {
  const Reflection& r = *message.GetReflection();
  return field.is_repeated() ? r.FieldSize(message, &field) > 0
                             : r.HasField(message, &field);
}

// Step on the path to a part of a message, applied to a copy of the message.
using Step = std::function<Message*(Message*)>;

void Spoil(const Message& whole, const Message& part, const Step& find,
           const std::string& path, std::vector<SpoiltMessage>& spoilt) {
  for (int i = 0; i < part.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor* const field = part.GetDescriptor()->field(i);
    if (!IsSet(part, *field)) continue;
    const std::string name = absl::StrCat(path, field->name());
    for (const Change& change : ChangesOf(*field)) {
      std::unique_ptr<Message> copy(whole.New());
      copy->CopyFrom(whole);
      change.apply(find(copy.get()), field);
      spoilt.push_back({absl::StrCat(name, " ", change.what), std::move(copy),
                        change.is_absurd});
    }
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    const auto first = [field](Message* m) {
      const Reflection& r = *m->GetReflection();
      return field->is_repeated() ? r.MutableRepeatedMessage(m, field, 0)
                                  : r.MutableMessage(m, field);
    };
    const std::unique_ptr<Message> inner(part.New());
    inner->CopyFrom(part);
    Spoil(
        whole, *first(inner.get()),
        [find, first](Message* m) { return first(find(m)); },
        absl::StrCat(name, "."), spoilt);
  }
}

}  // namespace

std::vector<SpoiltMessage> SpoilEachField(const Message& message) {
  std::vector<SpoiltMessage> spoilt;
  Spoil(message, message, [](Message* m) { return m; }, "", spoilt);
  return spoilt;
}

std::vector<std::string> FieldsNotSet(const Message& message) {
  std::vector<std::string> names;
  const Reflection& r = *message.GetReflection();
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor* const field = message.GetDescriptor()->field(i);
    if (!IsSet(message, *field)) {
      if (field->real_containing_oneof() == nullptr) {
        names.push_back(field->name());
      }
      continue;
    }
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
    const Message& inner = field->is_repeated()
                               ? r.GetRepeatedMessage(message, field, 0)
                               : r.GetMessage(message, field);
    for (const std::string& name : FieldsNotSet(inner)) {
      names.push_back(absl::StrCat(field->name(), ".", name));
    }
  }
  return names;
}

}  // namespace tutti
