(ns app.core
  "HTTP/1.0 over plain sockets, in the manner of Ring: a handler takes a request and gives a response."
  (:require [clojure.string :as str])
  (:import (java.io BufferedInputStream ByteArrayOutputStream InputStream OutputStream)
           (java.net ServerSocket Socket)))

(defn- read-line! [^InputStream in]
  (let [line (ByteArrayOutputStream.)]
    (loop []
      (let [b (.read in)]
        (when-not (or (= b -1) (= b 10))
          (when-not (= b 13) (.write line b))
          (recur))))
    (str line)))

(defn- read-request [^InputStream in]
  (let [[method target] (str/split (read-line! in) #" ")
        headers (into {} (for [line (take-while seq (repeatedly #(read-line! in)))
                               :let [[k v] (str/split line #":\s*" 2)]]
                           [(str/lower-case k) v]))
        length (parse-long (get headers "content-length" "0"))]
    {:method (keyword (str/lower-case (or method "get")))
     :uri (first (str/split (or target "/") #"\?"))
     :headers headers
     :body (.readNBytes in (int length))}))

(defn- write-response [^OutputStream out {:keys [status headers body]}]
  (let [head (apply str "HTTP/1.0 " status " -\r\n"
                    (for [[k v] (assoc headers "Content-Length" (alength ^bytes body))] (str k ": " v "\r\n")))]
    (.write out (.getBytes (str head "\r\n")))
    (.write out ^bytes body)
    (.flush out)))

(defn handler [{:keys [method uri headers body]}]
  (case [method uri]
    [:get "/"] {:status 200 :headers {"Content-Type" "application/json"} :body (.getBytes "{\"status\":\"ok\"}")}
    [:post "/echo"] {:status 200
                     :headers (if-let [type (headers "content-type")] {"Content-Type" type} {})
                     :body body}
    {:status 404 :headers {} :body (byte-array 0)}))

(defn- serve [^Socket socket]
  (with-open [socket socket]
    (write-response (.getOutputStream socket)
                    (handler (read-request (BufferedInputStream. (.getInputStream socket)))))))

(defn -main [& _]
  (with-open [server (ServerSocket. (parse-long (System/getenv "PORT")))]
    (loop []
      (let [socket (.accept server)]
        (future (serve socket)))
      (recur))))
