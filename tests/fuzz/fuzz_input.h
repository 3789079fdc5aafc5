#ifndef TUTTI_TESTS_FUZZ_FUZZ_INPUT_H_
#define TUTTI_TESTS_FUZZ_FUZZ_INPUT_H_

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

namespace tutti {

// Reads values from an input, from first to last. Zeros follow its end.
class FuzzInput {
 public:
  FuzzInput(const uint8_t* data, size_t size)
      : data_(reinterpret_cast<const char*>(data)), left_(size) {}

  bool empty() const { return left_ == 0; }

  // Reads a little-endian number.
  template <std::integral T>
  T Number() {
    std::make_unsigned_t<T> value = 0;
    for (size_t i = 0; i < sizeof(T); ++i) {
      value |= static_cast<std::make_unsigned_t<T>>(Byte()) << (8 * i);
    }
    return static_cast<T>(value);
  }

  // Reads a number from 0 to `count` - 1. REQUIRES: 0 < count <= 256.
  int Choice(int count) { return Byte() % count; }

  // Reads a text that FuzzOutput::Text() wrote; cut short at the end of the
  // input.
  std::string Text() { return Take(Number<uint16_t>()); }

  std::string Rest() { return Take(left_); }

 private:
  uint8_t Byte() {
    if (left_ == 0) return 0;
    --left_;
    return static_cast<uint8_t>(*data_++);
  }

  std::string Take(size_t size) {
    if (size > left_) size = left_;
    std::string bytes(data_, size);
    data_ += size;
    left_ -= size;
    return bytes;
  }

  const char* data_;
  size_t left_;
};

// Writes seeds that a FuzzInput reads.
class FuzzOutput {
 public:
  template <std::integral T>
  FuzzOutput& Number(T value) {
    const auto bits = static_cast<uint64_t>(value);
    for (size_t i = 0; i < sizeof(T); ++i) {
      bytes_.push_back(static_cast<char>(bits >> (8 * i)));
    }
    return *this;
  }
  FuzzOutput& Choice(int choice) {
    return Number(static_cast<uint8_t>(choice));
  }
  FuzzOutput& Text(const std::string& text) {
    Number(static_cast<uint16_t>(text.size()));
    return Rest(text);
  }
  FuzzOutput& Rest(const std::string& text) {
    bytes_ += text;
    return *this;
  }

  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

}  // namespace tutti

#endif  // TUTTI_TESTS_FUZZ_FUZZ_INPUT_H_
