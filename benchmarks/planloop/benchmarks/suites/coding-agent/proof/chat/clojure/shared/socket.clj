(ns socket
  "HTTP and the server's side of RFC 6455 over plain sockets: what the JDK's own server cannot do."
  (:require [clojure.string :as str])
  (:import (java.io BufferedInputStream ByteArrayOutputStream DataInputStream IOException InputStream OutputStream)
           (java.net ServerSocket Socket)
           (java.security MessageDigest)
           (java.util Base64)))

(def ^:private guid "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")

(defn- read-line! [^InputStream in]
  (let [line (ByteArrayOutputStream.)]
    (loop [b (.read in)]
      (when-not (#{-1 10} b)
        (when-not (= b 13) (.write line b))
        (recur (.read in))))
    (str line)))

(defn- read-request [^InputStream in]
  (let [[method target] (str/split (read-line! in) #" ")]
    {:method method
     :uri (first (str/split (or target "/") #"\?"))
     :headers (into {} (map #(let [[k v] (str/split % #":\s*" 2)] [(str/lower-case k) v]))
                    (take-while seq (repeatedly #(read-line! in))))}))

(defn- write-response [^OutputStream out {:keys [status type ^String body]}]
  (let [bytes (.getBytes body "UTF-8")]
    (.write out (.getBytes (str "HTTP/1.1 " status "\r\nContent-Type: " type "\r\nConnection: close\r\nContent-Length: "
                                (count bytes) "\r\n\r\n")))
    (.write out bytes)
    (.flush out)))

(defn- accept [key]
  (.encodeToString (Base64/getEncoder)
                   (.digest (MessageDigest/getInstance "SHA-1") (.getBytes (str key guid)))))

(defn- write-frame [^OutputStream out opcode ^bytes payload]
  (let [size (alength payload)
        length (cond
                 (< size 126) [size]
                 (< size 65536) [126 (bit-shift-right size 8) size]
                 :else (cons 127 (for [shift (range 56 -1 -8)] (bit-shift-right (long size) shift))))]
    (locking out
      (.write out (byte-array (map unchecked-byte (cons (bit-or 0x80 opcode) length))))
      (.write out payload)
      (.flush out))))

(defn- read-frame [^DataInputStream in]
  (let [head (.readUnsignedByte in)
        short (bit-and 0x7f (.readUnsignedByte in))
        size (case short 126 (.readUnsignedShort in) 127 (.readLong in) short)
        mask (.readNBytes in 4)
        payload (.readNBytes in (int size))]
    (dotimes [i size]
      (aset-byte payload i (unchecked-byte (bit-xor (aget payload i) (aget mask (mod i 4))))))
    {:opcode (bit-and 0x0f head) :last? (bit-test head 7) :payload payload}))

(defn- talk [^InputStream in ^OutputStream out on-text]
  (let [in (DataInputStream. in)]
    (loop [text (ByteArrayOutputStream.)]
      (let [{:keys [opcode last? ^bytes payload]} (read-frame in)]
        (case (int opcode)
          (0 1) (do (.write text payload)
                    (if last?
                      (do (on-text (.toString text "UTF-8")) (recur (ByteArrayOutputStream.)))
                      (recur text)))
          9 (do (write-frame out 10 payload) (recur text))
          8 (write-frame out 8 payload)
          (recur text))))))

(defn- chat [in ^OutputStream out key {:keys [join leave say]}]
  (.write out (.getBytes (str "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                              "Sec-WebSocket-Accept: " (accept key) "\r\n\r\n")))
  (let [client (fn [^String text]
                 (try (write-frame out 1 (.getBytes text "UTF-8")) (catch IOException _ nil)))]
    (join client)
    (try
      (talk in out #(say client %))
      (finally (leave client)))))

(defn- serve [^Socket socket handler path room]
  (with-open [socket socket]
    (try
      (let [in (BufferedInputStream. (.getInputStream socket))
            out (.getOutputStream socket)
            {:keys [uri headers] :as request} (read-request in)
            key (headers "sec-websocket-key")]
        (if (and key (= uri path))
          (chat in out key room)
          (write-response out (handler request))))
      (catch IOException _ nil))))

(defn run
  "Answers requests by `handler`, and sockets at `path` by `room`: a map of join, leave and say."
  [port handler path room]
  (let [server (ServerSocket. port)]
    (loop []
      (let [socket (.accept server)]
        (.start (Thread. #(serve socket handler path room))))
      (recur))))
