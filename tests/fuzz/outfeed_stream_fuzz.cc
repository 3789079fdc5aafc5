// Fuzzes the parcels of an outfeed from another process.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "outfeed/parcel.h"
#include "outfeed/stream_reader.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/fuzz_target.h"
#include "tutti/outfeed.h"
#include "tutti/tensor.h"

namespace tutti {
namespace {

// Item being read: its consumer, and the number of its arrays read until now.
struct Read {
  const OutfeedConsumer* consumer = nullptr;
  size_t num_arrays = 0;
};

size_t BytesOf(const ArraySpec& spec) {
  const auto bytes = SizeInBytes(spec.dtype, spec.shape);
  Promise(bytes.ok(), "an array's size is known");
  return static_cast<size_t>(*bytes);
}

void CheckArraySpec(Read& read, const ArraySpec* spec, size_t num_bytes) {
  Promise(read.consumer != nullptr &&
              read.num_arrays < read.consumer->arrays.size(),
          "an array belongs to an item");
  Promise(spec == &read.consumer->arrays[read.num_arrays++],
          "arrays come in order");
  Promise(num_bytes == BytesOf(*spec), "an array has its size");
}

void Check(Read& read, const StreamReader::Step& step) {
  const bool is_whole = read.consumer == nullptr ||
                        read.num_arrays == read.consumer->arrays.size();
  if (const auto* header = std::get_if<StreamReader::Header>(&step)) {
    Promise(is_whole, "an item is whole before the next");
    read = {header->consumer, 0};
  } else if (const auto* small =
                 std::get_if<StreamReader::InlineArray>(&step)) {
    CheckArraySpec(read, small->spec, small->bytes.size());
  } else if (const auto* large = std::get_if<StreamReader::LargeArray>(&step)) {
    Promise(large->num_bytes > 0, "what comes by itself is not empty");
    CheckArraySpec(read, large->spec, large->num_bytes);
  } else if (std::holds_alternative<StreamReader::End>(step)) {
    Promise(is_whole, "an item is whole before the end");
  }
}

// Returns false if the stream has ended.
bool ReadParcel(StreamReader& reader, absl::Span<const std::byte> parcel,
                Read& read) {
  reader.Begin(parcel);
  for (;;) {
    const auto step = reader.Next();
    if (!step.ok()) {
      Promise(absl::IsInvalidArgument(step.status()) ||
                  absl::IsResourceExhausted(step.status()),
              "what makes no sense is INVALID_ARGUMENT");
      return false;
    }
    Check(read, *step);
    if (std::holds_alternative<StreamReader::End>(*step)) return false;
    if (std::holds_alternative<StreamReader::ParcelEnd>(*step)) return true;
  }
}

template <typename... Entries>
std::string ParcelOf(const Entries&... entries) {
  std::vector<std::byte> parcel(kParcelBytes);
  ParcelWriter writer{absl::MakeSpan(parcel)};
  (writer.Add(entries), ...);
  writer.Finish();
  std::string bytes(reinterpret_cast<const char*>(parcel.data()),
                    parcel.size());
  return bytes.substr(0, bytes.find_last_not_of('\0') + 1);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzInput input(data, size);
  StreamReader reader(std::make_shared<OutfeedRegistry>());
  Read read;
  for (bool goes_on = true; goes_on && !input.empty();) {
    const std::string text = input.Text();
    // Exactly as large as the text, so that a sanitizer detects reads past the
    // end.
    std::vector<std::byte> parcel(text.size());
    if (!text.empty()) std::memcpy(parcel.data(), text.data(), text.size());
    goes_on = ReadParcel(reader, parcel, read);
  }
  return 0;
}

std::vector<std::string> FuzzSeeds() {
  const std::vector<std::byte> bytes(24);
  const SpecEntry small{{DType::kInt64, TensorShape::Vector(3)}};
  const SpecEntry large{{DType::kFloat16, *TensorShape::Create({40, 50})}};
  std::vector<std::string> seeds;
  seeds.push_back(FuzzOutput()
                      .Text(ParcelOf(DefineEntry{1, 2}, small))
                      .Text(ParcelOf(large, ItemEntry{1}, InlineEntry{bytes}))
                      .Text(ParcelOf(LargeEntry(), ItemEntry{1},
                                     InlineEntry{bytes}, LargeEntry()))
                      .Text(ParcelOf(EndEntry{absl::OkStatus()}))
                      .bytes());
  seeds.push_back(
      FuzzOutput()
          .Text(ParcelOf(DefineEntry{7, 0}, ItemEntry{7}, ItemEntry{7},
                         EndEntry{absl::InternalError("why")}))
          .bytes());
  return seeds;
}

}  // namespace tutti
