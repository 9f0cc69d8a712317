(ns vault.core
  "The vault, over plain sockets."
  (:require [clojure.string :as str]
            [sessions :as s]
            [users :refer [authenticated]])
  (:import (java.io BufferedInputStream ByteArrayOutputStream InputStream)
           (java.net ServerSocket Socket URLDecoder)))

(defn read-line! [^InputStream in]
  (let [line (ByteArrayOutputStream.)]
    (loop [b (.read in)]
      (when-not (#{-1 10} b)
        (when-not (= b 13) (.write line b))
        (recur (.read in))))
    (str line)))

(defn read-request [^InputStream in]
  (let [[method target] (str/split (read-line! in) #" ")
        headers (into {} (map #(let [[k v] (str/split % #":\s*" 2)] [(str/lower-case k) v]))
                      (take-while seq (repeatedly #(read-line! in))))
        body (.readNBytes in (parse-long (headers "content-length" "0")))]
    {:method method :target target :headers headers :body (String. body "UTF-8")}))

(defn params [body]
  (into {} (for [[_ k v] (re-seq #"([^&=]+)=([^&]*)" body)] [k (URLDecoder/decode v "UTF-8")])))

(defn session [{:keys [method headers body]}]
  (let [token (str/replace (headers "authorization" "") #"^Bearer ?" "")]
    (case method
      "POST" (let [{:strs [name secret]} (params body)]
               (if-let [user (authenticated name secret)]
                 (format "{\"ok\": true, \"user\": \"%s\", \"token\": \"%s\"}" user (s/begin user))
                 "{\"ok\": false}"))
      "DELETE" (do (s/end token) "{\"ok\": true}")
      (if-let [user (s/owner token)]
        (format "{\"ok\": true, \"user\": \"%s\"}" user)
        "{\"ok\": false}"))))

(defn answer [{:keys [target] :as request}]
  (case target
    "/session" ["200 OK" "application/json" (session request)]
    "/" ["200 OK" "text/html; charset=utf-8" (slurp "web/index.html")]
    ["404 Not Found" "text/plain" "not here"]))

(defn serve [^Socket socket]
  (with-open [socket socket]
    (let [in (BufferedInputStream. (.getInputStream socket))
          [status type ^String text] (answer (read-request in))
          body (.getBytes text "UTF-8")]
      (doto (.getOutputStream socket)
        (.write (.getBytes (str "HTTP/1.1 " status "\r\nContent-Type: " type "\r\nConnection: close\r\nContent-Length: "
                                (count body) "\r\n\r\n")))
        (.write body)
        (.flush)))))

(defn -main [& _]
  (let [server (ServerSocket. (parse-long (System/getenv "PORT")))]
    (while true
      (let [socket (.accept server)]
        (doto (Thread. #(serve socket)) .start)))))
