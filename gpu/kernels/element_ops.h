#ifndef TUTTI_GPU_KERNELS_ELEMENT_OPS_H_
#define TUTTI_GPU_KERNELS_ELEMENT_OPS_H_

#include <bit>
#include <complex>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "framework/tensor/small_floats.h"
#include "tutti/tensor.h"

// Marks functions that nvcc compiles for host and device. Other compilers
// compile them for the host only.
#ifdef __CUDACC__
#define TUTTI_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define TUTTI_HOST_DEVICE inline
#endif

// Unrolls a loop whose length is known at compile time.
#ifdef __CUDA_ARCH__
#define TUTTI_UNROLL _Pragma("unroll")
#else
#define TUTTI_UNROLL
#endif

// Arithmetic of reductions, one element at a time. Compiled for the device, and
// for the host, where tests compare it with tutti/reduction.h. Follows the
// rules of that header.

namespace tutti::gpu {

template <typename T>
TUTTI_HOST_DEVICE bool IsNaN(T value) {
  return value != value;  // NOLINT(misc-redundant-expression)
}

// Returns `value`. A NaN gets sign 0, the quiet bit and no payload.
template <typename T>
TUTTI_HOST_DEVICE T CanonicalNaN(T value) {
  return IsNaN(value) ? std::numeric_limits<T>::quiet_NaN() : value;
}

TUTTI_HOST_DEVICE bool IsNegative(float value) {
  return std::bit_cast<int32_t>(value) < 0;
}
TUTTI_HOST_DEVICE bool IsNegative(double value) {
  return std::bit_cast<int64_t>(value) < 0;
}

// Device code uses instructions for float16. Like
// framework/tensor/small_floats.h they round to nearest even and keep
// denormals.
#ifdef __CUDA_ARCH__
__device__ __forceinline__ float WidenFloat16(uint16_t code) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(code));
  return value;
}
__device__ __forceinline__ uint16_t NarrowToFloat16(float value) {
  uint16_t code;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(code) : "f"(value));
  return IsNaN(value) ? 0x7E00 : code;
}
#else
TUTTI_HOST_DEVICE float WidenFloat16(uint16_t code) {
  return Float16ToFloat(code);
}
TUTTI_HOST_DEVICE uint16_t NarrowToFloat16(float value) {
  return FloatToFloat16(CanonicalNaN(value));
}
#endif

// A format reads elements, as they lie in memory, as values of type Value, and
// writes them back. All NaNs are written with the same bits.

template <typename Element>
struct Format {
  using Stored = Element;
  using Value = Element;
  static TUTTI_HOST_DEVICE Element Read(Element stored) { return stored; }
  static TUTTI_HOST_DEVICE Element Write(Element value) {
    if constexpr (std::is_floating_point_v<Element>) {
      return CanonicalNaN(value);
    } else {
      return value;
    }
  }
};

// Arithmetic in float, in software.
template <class Bits>
struct Float8Format {
  using Stored = uint8_t;
  using Value = float;
  static TUTTI_HOST_DEVICE float Read(uint8_t code) {
    return Float8ToFloat<Bits>(code);
  }
  static TUTTI_HOST_DEVICE uint8_t Write(float value) {
    return FloatToFloat8<Bits>(CanonicalNaN(value));
  }
};
template <>
struct Format<Float8E4M3FN> : Float8Format<E4M3FN> {};
template <>
struct Format<Float8E5M2> : Float8Format<E5M2> {};

template <typename T>
struct Complex {
  T real;
  T imaginary;
};
template <typename T>
inline constexpr bool kIsParts = false;
template <typename T>
inline constexpr bool kIsParts<Complex<T>> = true;

template <typename T>
struct Format<std::complex<T>> {
  using Stored = Complex<T>;
  using Value = Complex<T>;
  static TUTTI_HOST_DEVICE Value Read(Stored stored) { return stored; }
  static TUTTI_HOST_DEVICE Stored Write(Value value) {
    return {CanonicalNaN(value.real), CanonicalNaN(value.imaginary)};
  }
};

// A byte of any value but 0 is true; 0 or 1 is written.
template <>
struct Format<bool> {
  using Stored = uint8_t;
  using Value = uint8_t;
  static TUTTI_HOST_DEVICE uint8_t Read(uint8_t stored) { return stored != 0; }
  static TUTTI_HOST_DEVICE uint8_t Write(uint8_t value) { return value; }
};

// Integers whose sums are wide enough for kMaxMeanInputs, so that an average is
// exact. What is written without a division wraps around.
__extension__ typedef __int128 Int128;
__extension__ typedef unsigned __int128 Uint128;
template <typename T>
using WideFor = std::conditional_t<
    sizeof(T) == 8, std::conditional_t<std::is_signed_v<T>, Int128, Uint128>,
    std::conditional_t<
        sizeof(T) == 4,
        std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>,
        std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>>>;

template <typename T>
struct WideFormat {
  using Stored = T;
  using Value = WideFor<T>;
  static TUTTI_HOST_DEVICE Value Read(T stored) { return stored; }
  static TUTTI_HOST_DEVICE T Write(Value value) {
    return static_cast<T>(value);
  }
};

template <typename Format>
inline constexpr bool kIsWide =
    sizeof(typename Format::Value) > sizeof(typename Format::Stored) &&
    !std::is_floating_point_v<typename Format::Value>;

template <>
struct Format<Float16> {
  using Stored = uint16_t;
  using Value = float;
  static TUTTI_HOST_DEVICE float Read(uint16_t code) {
    return WidenFloat16(code);
  }
  static TUTTI_HOST_DEVICE uint16_t Write(float value) {
    return NarrowToFloat16(value);
  }
};

// A bfloat16 is the upper half of a float.
template <>
struct Format<BFloat16> {
  using Stored = uint16_t;
  using Value = float;
  static TUTTI_HOST_DEVICE float Read(uint16_t code) {
    return std::bit_cast<float>(uint32_t{code} << 16);
  }

  // Rounding could turn a NaN into infinity or -0; the canonical NaN stays a
  // NaN.
  static TUTTI_HOST_DEVICE uint16_t Write(float value) {
    const auto bits = std::bit_cast<uint32_t>(CanonicalNaN(value));
    return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
  }
};

// Integers wrap around. Their sums and products are computed in this type,
// which has no undefined overflow: uint16_t would become int.
template <typename T>
using Wrapping = std::common_type_t<std::make_unsigned_t<T>, unsigned>;

struct Sum {
  template <typename T>
  static TUTTI_HOST_DEVICE T Of(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<Wrapping<T>>(a) +
                            static_cast<Wrapping<T>>(b));
    } else if constexpr (kIsParts<T>) {
      return {a.real + b.real, a.imaginary + b.imaginary};
    } else {
      return a + b;
    }
  }
};

struct Prod {
  template <typename T>
  static TUTTI_HOST_DEVICE T Of(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<Wrapping<T>>(a) *
                            static_cast<Wrapping<T>>(b));
    } else if constexpr (kIsParts<T>) {
      return {a.real * b.real - a.imaginary * b.imaginary,
              a.real * b.imaginary + a.imaginary * b.real};
    } else {
      return a * b;
    }
  }
};

// Orders -0 below +0. Meaningless if either is a NaN.
template <typename T>
TUTTI_HOST_DEVICE bool IsBelow(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return a < b;
  } else {
    return a < b || (a == b && IsNegative(a));
  }
}

struct Min {
  template <typename T>
  static TUTTI_HOST_DEVICE T Of(T a, T b) {
    if (IsNaN(a)) return a;
    if (IsNaN(b)) return b;
    return IsBelow(a, b) ? a : b;
  }
};

struct Max {
  template <typename T>
  static TUTTI_HOST_DEVICE T Of(T a, T b) {
    if (IsNaN(a)) return a;
    if (IsNaN(b)) return b;
    return IsBelow(a, b) ? b : a;
  }
};

// Integers only.

struct Band {
  template <typename T>
  static TUTTI_HOST_DEVICE T Of(T a, T b) {
    return static_cast<T>(a & b);
  }
};

struct Bor {
  template <typename T>
  static TUTTI_HOST_DEVICE T Of(T a, T b) {
    return static_cast<T>(a | b);
  }
};

struct Bxor {
  template <typename T>
  static TUTTI_HOST_DEVICE T Of(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};

// Divides integers in at least 64 bits and truncates toward zero. A floating
// type first rounds the divisor. REQUIRES: divisor > 0.
template <typename T>
TUTTI_HOST_DEVICE T Quotient(T value, int64_t divisor) {
  if constexpr (std::is_integral_v<T> && sizeof(T) <= 8) {
    using Wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
    return static_cast<T>(Wide{value} / static_cast<Wide>(divisor));
  } else if constexpr (kIsParts<T>) {
    return {Quotient(value.real, divisor), Quotient(value.imaginary, divisor)};
  } else {
    return value / static_cast<T>(divisor);
  }
}

}  // namespace tutti::gpu

#endif  // TUTTI_GPU_KERNELS_ELEMENT_OPS_H_
