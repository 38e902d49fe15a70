// Record values of a model, for `jax2onnx compare --captured`. Needs C++17 and its standard library.
//
//     recording::write("folder", "dot_general", data, {batch, 128});
//
// `data` are the elements in C order: a pointer to float, double, bool, or an integer type. Pass the
// elements of float16 as `recording::Half`, which has the same bits.

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace recording {

// The bits of a float16.
enum class Half : std::uint16_t {};

// The type of elements, as NumPy writes it.
template <typename T>
std::string descr() {
    const std::string size = std::to_string(sizeof(T));
    const std::string order = sizeof(T) == 1 ? "|" : "<";
    if constexpr (std::is_same_v<T, Half>) {
        return "<f2";
    } else if constexpr (std::is_same_v<T, bool>) {
        return "|b1";
    } else if constexpr (std::is_floating_point_v<T>) {
        static_assert(sizeof(T) <= 8, "NumPy files do not contain long doubles everywhere");
        return "<f" + size;
    } else {
        static_assert(std::is_integral_v<T>, "the elements are numbers");
        return order + (std::is_signed_v<T> ? "i" : "u") + size;
    }
}

// The name of the file of a value, escaped as in a URL.
inline std::string file_name(const std::string& value) {
    static const char digits[] = "0123456789ABCDEF";
    const std::string plain = "-_.~";
    std::string name;
    for (const char character : value) {
        const auto byte = static_cast<unsigned char>(character);
        const bool is_letter = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
        const bool is_digit = byte >= '0' && byte <= '9';
        if (is_letter || is_digit || plain.find(character) != std::string::npos) {
            name += character;
        } else {
            name += {'%', digits[byte / 16], digits[byte % 16]};
        }
    }
    return name + ".npy";
}

// Writes one array. Little-endian machines only.
template <typename T>
void write(const std::filesystem::path& folder, const std::string& value, const T* data,
           const std::vector<std::size_t>& shape) {
    std::size_t count = 1;
    std::string sizes;
    for (const std::size_t size : shape) {
        count *= size;
        sizes += std::to_string(size) + ", ";
    }
    std::string header =
        "{'descr': '" + descr<T>() + "', 'fortran_order': False, 'shape': (" + sizes + "), }";
    // The elements start at a multiple of 64 bytes.
    header.resize((header.size() + 11 + 63) / 64 * 64 - 11, ' ');
    header += '\n';
    std::filesystem::create_directories(folder);
    std::ofstream file(folder / file_name(value), std::ios::binary);
    const std::string start("\x93NUMPY\x01\x00", 8);
    file.write(start.data(), 8);
    file.put(static_cast<char>(header.size() & 255));
    file.put(static_cast<char>(header.size() >> 8));
    file.write(header.data(), static_cast<std::streamsize>(header.size()));
    file.write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(count * sizeof(T)));
    if (!file) {
        throw std::runtime_error("cannot write " + (folder / file_name(value)).string());
    }
}

}  // namespace recording
